// Baselines that a plan is compared with.
#pragma once

#include "placement/selection.hpp"

namespace paceline::placement {

/// Gives each device one model; the models that are asked to compute most have several devices. A
/// model that does not fit on a device has none.
Placement one_per_device(const Problem& problem, const Workload& workload);

/// Makes each device a group by itself, which holds as many models as fit: the selection of the
/// planner without any splitting (Li et al. 2023, section 6.2).
Selection replicate_selectively(const Problem& problem, const Workload& workload, int beam,
                                const Stop& stop);

/// Makes pipelines of four stages (fewer on what is left over), and puts models one after the other
/// on one group after the other while something fits (Li et al. 2023, section 6.6).
Placement round_robin(const Problem& problem);

/// Repeats selective replication in each window, from the requests of the window before, as
/// Clockwork would be at its best: loading a model takes no time (Li et al. 2023, section 6.2).
/// first: the placement of the first window. window_seconds: above 0. stop: the rest is served as
/// it is placed then.
Outcome replace_in_windows(
    const Problem& problem, const Placement& first, const Workload& workload, double window_seconds,
    const Stop& stop = [] { return false; });

} // namespace paceline::placement
