// What a run prints.
#pragma once

#include "apps/laboratory/load/capacity.hpp"
#include "apps/laboratory/load/measures.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps::load {

/// Rates and latencies under the names of vLLM's result file, and what became of those that failed.
boost::json::object figures_json(const Figures& figures);
/// figures_json, and what is known of queues and speculation. detailed: with each request's lengths
/// and latencies, as vLLM's --save-detailed has them.
boost::json::object run_json(const Run& run, const Figures& figures, bool detailed);
/// The same for people.
std::string run_text(const Run& run, const Figures& figures);

/// {"capacity", "objectives", "trials"}
boost::json::object capacity_json(const Capacity& capacity,
                                  const std::vector<Objective>& objectives);
std::string capacity_text(const Capacity& capacity, const std::vector<Objective>& objectives);

} // namespace paceline::apps::load
