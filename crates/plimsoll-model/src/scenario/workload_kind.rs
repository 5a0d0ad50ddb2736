//! The list of the workloads.

/// Passes the list of the workloads, in the order of the documentation, to a macro: variant of `Workload` and
/// `WorkloadKind`, type of the settings, module, name in a scenario file.
///
/// The model, the laboratory, the report and the tests of `plimsoll run` have a module of that name for each workload, and
/// declare it from this list. Because rustfmt does not see modules that a macro declares, `just format` names them.
#[macro_export]
macro_rules! for_each_workload {
    ($with:ident) => {
        $with! {
            /// The memory eater: fill, trim, restore, release.
            Compression(Compression) compression "compression";
            /// Consumers that together need more than there is, started one after the other.
            Thrash(Thrash) thrash "thrash";
            /// One worker that visits its memory, at one load after the other.
            Loadline(Loadline) loadline "loadline";
            /// One worker that scans its memory, first uncapped and then under a cap.
            Wscap(Wscap) wscap "wscap";
            /// Memory mapped, touched, released and used again.
            Map(Map) map "map";
            /// A program that holds memory while a second program requests more.
            Contention(Contention) contention "contention";
            /// A load on malloc, in a process that runs on the allocator under test.
            Heap(Heap) heap "heap";
            /// A program of the user, run whole under one limit after the other.
            Command(ProgramRun) command "command";
        }
    };
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
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
}
