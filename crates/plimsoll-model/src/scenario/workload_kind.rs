//! The list of the workloads.

/// Passes the list of the workloads, in the order of the documentation, to a macro: variant and type, module, name in a
/// scenario file.
macro_rules! for_each_workload {
    ($with:ident) => {
        $with! {
            /// The memory eater: fill, trim, restore, release.
            Compression compression "compression";
            /// Consumers that together need more than there is, started one after the other.
            Thrash thrash "thrash";
            /// One worker that visits its memory, at one load after the other.
            Loadline loadline "loadline";
            /// One worker that scans its memory, first uncapped and then under a cap.
            Wscap wscap "wscap";
            /// Memory mapped, touched, released and used again.
            Map map "map";
            /// A program that holds memory while another one asks for more.
            Contention contention "contention";
            /// A load on malloc, in a process that runs on the allocator under test.
            Heap heap "heap";
            /// A program of the user, run whole under one limit after the other.
            Command command "command";
        }
    };
}
pub(super) use for_each_workload;

macro_rules! kinds {
    ($($(#[$doc:meta])* $workload:ident $module:ident $name:literal;)*) => {
        /// The workloads without their settings, by their names in a scenario file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WorkloadKind {
            $($(#[$doc])* $workload,)*
        }

        impl WorkloadKind {
            /// Every workload, in the order of the documentation.
            pub const ALL: [WorkloadKind; [$($name),*].len()] = [$(WorkloadKind::$workload),*];

            /// The name in a scenario file and in [`crate::recording::model::Trial::workload`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(WorkloadKind::$workload => $name,)*
                }
            }
        }
    };
}

for_each_workload!(kinds);

impl Default for WorkloadKind {
    /// The workload of a section without the key `workload`.
    fn default() -> Self {
        WorkloadKind::Compression
    }
}

impl WorkloadKind {
    pub fn of_name(name: &str) -> Option<WorkloadKind> {
        WorkloadKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether its subjects are allocators, not places for trimmed pages.
    pub fn tests_allocators(self) -> bool {
        self == WorkloadKind::Heap
    }

    /// Whether its worker can hold its memory in a pager.
    pub fn tests_pagers(self) -> bool {
        matches!(
            self,
            WorkloadKind::Compression
                | WorkloadKind::Loadline
                | WorkloadKind::Wscap
                | WorkloadKind::Contention
        )
    }

    /// Whether its sizes and times can be smaller: a program of the user needs the memory that it needs.
    pub(super) fn shrinks(self) -> bool {
        self != WorkloadKind::Command
    }
}
