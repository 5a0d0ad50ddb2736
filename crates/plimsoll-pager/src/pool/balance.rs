//! The split of a budget among members: a pure function from readings to grants.
//!
//! The objective is the least stall of all members together, weighted by priority. Each member publishes the slope of its
//! own curve, the stall that one more GiB would save (*gain*, see `distances`): more pages are worth most to the member with
//! the largest gain. A round has three steps, each of which moves pages to members in the order of their price, the gain
//! weighted by priority:
//!
//! 1. *Minima*: a member below its minimum gets the missing pages, if it must be from pages in use. A member whose faults
//!    wait for memory, as it can trim nothing, needs more than it has: its need counts as a minimum. Such a member does not
//!    wait for a round: this step alone is made at once (`meet_needs`). Pages that a member shares with its children go last:
//!    a trim of them frees no memory, and no other step takes them.
//! 2. *Fill*: a member below its working set gets free pages, then idle pages of others, a quarter of them a round. Idle are
//!    pages above the working set, and those that the member does not fill: after its pages were compressed, its working set
//!    is larger than the memory that it has resident. Pages of a suspended member are among the free ones once it has
//!    acknowledged their loss.
//! 3. *Trade*: the other pages are in use. Members that refault bid their price, members with pages above their minimum ask
//!    theirs: a quarter more than the gain that they have themselves or had when they last gave pages (*loss*), as a member
//!    that does not refault shows no gain before it has lost pages. Bids meet asks in order, while the bid is higher.
//!
//! Each member trades at most its *step* a round. The step grows by half while the member goes on in one direction and
//! halves when it turns back, within bounds that are shares of the total (the rule of Rprop, M. Riedmiller and H. Braun, A
//! direct adaptive method for faster backpropagation learning, 1993). The loss halves in 89 rounds, so that a member whose
//! working set has shrunk is asked again.
//!
//! Properties, each with its test:
//! - the sum of the grants is at most the total: `the_total_is_kept`;
//! - no grant is above its maximum, or below its minimum if it was not so before: `limits_are_kept`; one that was rises:
//!   `a_member_below_its_minimum_gets_it`;
//! - a member with a larger gain gets no fewer pages: `more_refaults_never_mean_fewer_pages`;
//! - for constant readings the grants come to rest without a cycle, as each change increases the stall that the split saves:
//!   `constant_readings_come_to_rest`;
//! - a member that alone refaults gets its working set: `the_only_member_that_refaults_is_served`;
//! - the split comes near the optimum of known miss-ratio curves: tests of `simulation`.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// The highest priority. Each step doubles the weight.
pub const HIGHEST_PRIORITY: u8 = 7;

/// A larger gain counts as this one: with the weight of a priority it fits a word.
pub(crate) const MOST_GAIN: u64 = 1 << 48;

/// A member's first trade is at most this part of the total.
const FIRST_STEP: u64 = 64;

/// The largest trade of a round is at most this part of the total.
const LARGEST_STEP: u64 = 16;

/// A round takes this part of a loss away: half of it within 89 rounds.
const LOSS_PART: u64 = 128;

/// A member may have this part of the total above the pages that it fills.
const ROOM: u64 = 16;

/// The ability of a member to change in this round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It reports and acknowledges.
    Bids,
    /// It has not reported for some time. It keeps its grant.
    Silent,
    /// It is stopped, or has said that it is suspended. It keeps its minimum.
    Suspended,
}

/// The state of a member. Sizes are in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) given: u64,
    pub(crate) charged: u64,
    pub(crate) minimum: u64,
    /// Pages of its grant that go to others last, as a trim of them frees no memory: its children share them.
    pub(crate) kept: u64,
    pub(crate) maximum: u64,
    pub(crate) resident: u64,
    /// Working set.
    pub(crate) wanted: u64,
    /// Microseconds of stall a second that one more GiB would save.
    pub(crate) gain: u64,
    /// The same by the refaults of the last measurement alone: nothing as soon as the member does not refault.
    pub(crate) gain_now: u64,
    pub(crate) priority: u8,
    pub(crate) activity: Activity,
    pub(crate) history: History,
}

/// The grant of a member after a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) given: u64,
    pub(crate) history: History,
}

/// The direction in which a member traded last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    None,
    Took,
    Gave,
}

/// The memory of a member's trades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// The gain that the member had after it gave pages.
    pub(crate) loss: u64,
    /// The most pages that it trades in a round.
    step: u64,
    direction: Direction,
}

/// Bits of a word for the step.
const STEP_BITS: u32 = 40;

impl History {
    /// Without trades, in a pool of `total` pages.
    pub(crate) fn new(total: u64) -> History {
        History {
            loss: 0,
            step: (total / FIRST_STEP).max(1),
            direction: Direction::None,
        }
    }

    /// Step and direction as a word of shared memory.
    pub(crate) fn word(&self) -> u64 {
        (self.direction as u64) << STEP_BITS | self.step
    }

    /// The history in two words; none if they are never written so.
    pub(crate) fn of_words(loss: u64, word: u64) -> Option<History> {
        let direction = match word >> STEP_BITS {
            0 => Direction::None,
            1 => Direction::Took,
            2 => Direction::Gave,
            _ => return None,
        };
        let step = word & ((1 << STEP_BITS) - 1);
        (loss <= MOST_GAIN && step > 0).then_some(History {
            loss,
            step,
            direction,
        })
    }

    /// After a round in which the member had this gain, took and gave these pages.
    fn after(self, total: u64, gain: u64, took: u64, gave: u64) -> History {
        let decayed = self.loss - self.loss.div_ceil(LOSS_PART);
        let learned = if self.direction == Direction::Gave {
            gain
        } else {
            0
        };
        let (direction, step) = match (took, gave) {
            (0, 0) => (self.direction, self.step),
            (_, 0) => (Direction::Took, self.step_towards(Direction::Took)),
            _ => (Direction::Gave, self.step_towards(Direction::Gave)),
        };
        History {
            loss: decayed.max(learned),
            step: step.clamp((total / 2048).max(1), (total / LARGEST_STEP).max(1)),
            direction,
        }
    }

    fn step_towards(self, direction: Direction) -> u64 {
        match self.direction {
            Direction::None => self.step,
            last if last == direction => self.step + self.step / 2 + 1,
            _ => self.step / 2,
        }
    }
}

impl Reading {
    fn bids(&self) -> bool {
        self.activity == Activity::Bids
    }

    /// The grant before pages move.
    fn start(&self) -> u64 {
        match self.activity {
            Activity::Bids => self.given.min(self.maximum),
            Activity::Silent => self.given,
            Activity::Suspended => self.given.min(self.minimum),
        }
    }

    /// The pages that no other member can have in this round. A member that does not answer may use all its charge.
    fn occupied(&self) -> u64 {
        match self.activity {
            Activity::Bids => self.start(),
            Activity::Silent | Activity::Suspended => self.charged.max(self.start()),
        }
    }

    /// The pages that a trade leaves it.
    fn floor(&self) -> u64 {
        self.minimum.max(self.kept)
    }

    /// The most pages that it wants.
    fn target(&self) -> u64 {
        self.wanted.clamp(self.minimum, self.maximum)
    }

    /// The most pages that it wants and fills. `room` is for those that it is about to fill: it reports before it knows its
    /// grant, and some frames of a grant are always spare.
    fn filled_target(&self, room: u64) -> u64 {
        self.target().min(filled(self.resident, room).max(self.minimum))
    }

    fn gain(&self) -> u64 {
        self.gain.min(MOST_GAIN)
    }

    /// The gain as far as it is not the rest of an earlier one.
    fn gain_felt(&self) -> u64 {
        self.gain().min(self.gain_now)
    }

    /// The price that it bids.
    fn bid(&self) -> u64 {
        self.gain() << self.priority.min(HIGHEST_PRIORITY)
    }

    /// The price that it asks when it has `pages`: nothing for idle ones.
    fn ask(&self, pages: u64, room: u64) -> u64 {
        if pages > self.filled_target(room) {
            return 0;
        }
        let price = self.gain().max(self.history.loss) << self.priority.min(HIGHEST_PRIORITY);
        price.saturating_add(price / 4)
    }
}

/// The grants of the next round. The result is in the order of the readings.
pub(crate) fn balance(total: u64, readings: &[Reading]) -> Vec<Decision> {
    let mut round = Round::new(total, readings);
    round.meet_minima();
    round.fill();
    let traded = round.trade();
    let decide = |((reading, pages), (took, gave)): ((&Reading, &u64), &(u64, u64))| Decision {
        given: *pages,
        history: reading.history.after(total, reading.gain_felt(), *took, *gave),
    };
    readings
        .iter()
        .zip(&round.pages)
        .zip(&traded)
        .map(decide)
        .collect()
}

/// The pages of a member that it does not use, in a pool of `total`: a round gives them to others first.
#[cfg(not(loom))]
pub(crate) fn idle(total: u64, reading: &Reading) -> u64 {
    match reading.bids() {
        true => reading.start().saturating_sub(reading.filled_target(room(total))),
        false => 0,
    }
}

/// The pages that a member may have above those that it fills.
pub(crate) fn room(total: u64) -> u64 {
    total / ROOM
}

/// The pages that a member with so many resident fills, and those that it is about to fill.
pub(crate) fn filled(resident: u64, room: u64) -> u64 {
    resident.saturating_add(resident / 8).saturating_add(room)
}

/// The grants between two rounds: the first step alone. Histories stay.
pub(crate) fn meet_needs(total: u64, readings: &[Reading]) -> Vec<Decision> {
    let mut round = Round::new(total, readings);
    round.meet_minima();
    let kept = |(reading, pages): (&Reading, &u64)| Decision {
        given: *pages,
        history: reading.history,
    };
    readings.iter().zip(&round.pages).map(kept).collect()
}

/// Pages on their way.
struct Round<'r> {
    readings: &'r [Reading],
    /// Grants so far.
    pages: Vec<u64>,
    /// Pages that belong to none.
    available: u64,
    /// Pages that a member may have above those that it fills.
    room: u64,
}

impl<'r> Round<'r> {
    fn new(total: u64, readings: &'r [Reading]) -> Round<'r> {
        let occupied: u64 = readings.iter().map(Reading::occupied).sum();
        Round {
            readings,
            pages: readings.iter().map(Reading::start).collect(),
            available: total.saturating_sub(occupied),
            room: room(total),
        }
    }

    /// The numbers of the members that bid.
    fn bidders(&self) -> impl Iterator<Item = usize> {
        (0..self.readings.len()).filter(|&at| self.readings[at].bids())
    }

    fn meet_minima(&mut self) {
        let missing = self.each(|reading, pages| reading.minimum.saturating_sub(pages));
        let needed: u64 = missing.iter().sum();
        if needed == 0 {
            return;
        }
        let mut found = self.take_available(needed);
        let idle = self.each(|reading, pages| pages.saturating_sub(reading.filled_target(self.room)));
        found += self.take(needed - found, &idle);
        let floors: [fn(&Reading) -> u64; 2] = [Reading::floor, |reading| reading.minimum];
        for floor in floors {
            for seller in self.sellers() {
                let above = self.pages[seller].saturating_sub(floor(&self.readings[seller]));
                let taken = above.min(needed - found);
                self.pages[seller] -= taken;
                found += taken;
            }
        }
        self.add(&split(found, &missing));
    }

    /// Members that fill their pages come first: else idle pages, which are free a round later, would go to one that does not.
    fn fill(&mut self) {
        let room = self.room;
        let wishes = self.each(|reading, pages| reading.filled_target(room).saturating_sub(pages));
        let idle = self.each(|reading, pages| pages.saturating_sub(reading.filled_target(room)).div_ceil(4));
        let wished = wishes.iter().sum();
        let mut supply = self.take_available(wished);
        supply += self.take(wished - supply, &idle);
        self.distribute(supply, &wishes);
        let wishes = self.each(|reading, pages| reading.target().saturating_sub(pages));
        let supply = self.take_available(wishes.iter().sum());
        self.distribute(supply, &wishes);
    }

    /// Gives pages to members by their wishes, those with the highest bids first.
    fn distribute(&mut self, mut supply: u64, wishes: &[u64]) {
        let mut prices: Vec<u64> = self.readings.iter().map(Reading::bid).collect();
        prices.sort_unstable();
        prices.dedup();
        for price in prices.into_iter().rev() {
            let group: Vec<u64> = wishes
                .iter()
                .zip(self.readings)
                .map(|(wish, reading)| if reading.bid() == price { *wish } else { 0 })
                .collect();
            let got = split(supply, &group);
            supply -= got.iter().sum::<u64>();
            self.add(&got);
        }
    }

    /// Moves pages from the cheapest seller to the highest bidder until no bid is above an ask. Returns the pages that each
    /// member took and gave; none does both, as its own ask is not below its own bid.
    fn trade(&mut self) -> Vec<(u64, u64)> {
        let mut traded = vec![(0, 0); self.readings.len()];
        let asks: Vec<u64> = (0..self.readings.len())
            .map(|at| self.readings[at].ask(self.pages[at], self.room))
            .collect();
        let step = |at: usize| self.readings[at].history.step;
        let wants = |at: usize| {
            let wish = self.readings[at]
                .filled_target(self.room)
                .saturating_sub(self.pages[at]);
            (at, wish.min(step(at)))
        };
        let has = |at: usize| {
            let (reading, pages) = (&self.readings[at], self.pages[at]);
            // Idle pages are cheap; no others go at their price.
            let target = reading.filled_target(self.room);
            let floor = if pages > target { target } else { reading.floor() };
            (at, pages.saturating_sub(floor).min(step(at)))
        };
        let mut buyers: Vec<(usize, u64)> = self.buyers().into_iter().map(wants).collect();
        let mut sellers: Vec<(usize, u64)> = self.sellers().into_iter().map(has).collect();
        let (mut buyer, mut seller) = (0, 0);
        while let (Some((to, wish)), Some((from, offer))) = (buyers.get_mut(buyer), sellers.get_mut(seller)) {
            if self.readings[*to].bid() <= asks[*from] {
                break;
            }
            let moved = (*wish).min(*offer);
            traded[*to].0 += moved;
            traded[*from].1 += moved;
            *wish -= moved;
            *offer -= moved;
            buyer += usize::from(*wish == 0);
            seller += usize::from(*offer == 0);
        }
        for (pages, (took, gave)) in self.pages.iter_mut().zip(&traded) {
            *pages = *pages + took - gave;
        }
        traded
    }

    /// Members that refault, the highest bid first; with equal bids the smaller one.
    fn buyers(&self) -> Vec<usize> {
        let mut order: Vec<usize> = self.bidders().filter(|&at| self.readings[at].bid() > 0).collect();
        order.sort_by_key(|&at| (u64::MAX - self.readings[at].bid(), self.pages[at]));
        order
    }

    /// Members that can give, the lowest ask first; with equal asks the larger one.
    fn sellers(&self) -> Vec<usize> {
        let mut order: Vec<usize> = self.bidders().collect();
        order.sort_by_key(|&at| {
            (
                self.readings[at].ask(self.pages[at], self.room),
                u64::MAX - self.pages[at],
            )
        });
        order
    }

    /// A number for each member that bids, 0 for the others.
    fn each(&self, of: impl Fn(&Reading, u64) -> u64) -> Vec<u64> {
        let members = self.readings.iter().zip(&self.pages);
        let value = |(reading, pages): (&Reading, &u64)| if reading.bids() { of(reading, *pages) } else { 0 };
        members.map(value).collect()
    }

    fn take_available(&mut self, most: u64) -> u64 {
        let taken = most.min(self.available);
        self.available -= taken;
        taken
    }

    /// Takes up to `most` pages from members in proportion to their offers.
    fn take(&mut self, most: u64, offers: &[u64]) -> u64 {
        let taken = split(most, offers);
        for (pages, taken) in self.pages.iter_mut().zip(&taken) {
            *pages -= taken;
        }
        taken.iter().sum()
    }

    fn add(&mut self, parts: &[u64]) {
        for (pages, part) in self.pages.iter_mut().zip(parts) {
            *pages += part;
        }
    }
}

/// Divides `amount` in proportion to the wishes, each of which it meets at most. The sum of the parts is the smaller of the
/// amount and the wishes together.
pub(crate) fn split(amount: u64, wishes: &[u64]) -> Vec<u64> {
    let wished: u128 = wishes.iter().map(|wish| u128::from(*wish)).sum();
    if u128::from(amount) >= wished {
        return wishes.to_vec();
    }
    let part = |wish: &u64| (u128::from(*wish) * u128::from(amount) / wished) as u64;
    let mut parts: Vec<u64> = wishes.iter().map(part).collect();
    // Rounded down, so fewer than one page a member is left.
    let mut rest = amount - parts.iter().sum::<u64>();
    for (part, wish) in parts.iter_mut().zip(wishes) {
        let more = u64::from(rest > 0 && *part < *wish);
        *part += more;
        rest -= more;
    }
    parts
}
