//! The factor that `--quick` and the key `scale` shrink sizes by.

/// Factor that shrinks the sizes of a file: `--quick` for a scenario without `[quick]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    numerator: u64,
    denominator: u64,
}

impl Scale {
    /// No scaling.
    pub(super) const ONE: Scale = Scale {
        numerator: 1,
        denominator: 1,
    };

    /// The factor `target / from`, which is at most 1; `from` is not 0.
    pub(super) fn new(target: u64, from: u64) -> Self {
        Scale {
            numerator: target,
            denominator: from,
        }
    }

    /// Multiplies the scale by `factor`, which is at most 1.
    pub(super) fn and(self, factor: f64) -> Self {
        const PARTS: u64 = 1 << 20;
        Scale {
            numerator: (self.numerator as f64 * factor * PARTS as f64) as u64,
            denominator: self.denominator.saturating_mul(PARTS),
        }
    }

    /// `bytes` times the scale.
    pub(super) fn of(self, bytes: u64) -> u64 {
        let scaled = u128::from(bytes) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).unwrap_or(bytes)
    }
}
