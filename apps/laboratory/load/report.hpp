// The output of a run.
#pragma once

#include "apps/laboratory/load/capacity.hpp"
#include "apps/laboratory/load/measures.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::apps::load {

/// Returns "inf" if the rate is infinite: JSON has no such number, and vLLM writes it so.
boost::json::value rate_json(double rate);

/// Returns rates and latencies under the names of vLLM's result file, and the numbers of failed
/// requests by reason.
boost::json::object figures_json(const Figures& figures);
/// Returns figures_json, and what is known of queues and speculation. detailed: adds each request's
/// lengths and latencies, as vLLM's --save-detailed does.
boost::json::object run_json(const Run& run, const Figures& figures, bool detailed);
/// Returns the same as a text for people.
std::string run_text(const Run& run, const Figures& figures);

/// Returns {"capacity", "objectives", "trials"}.
boost::json::object capacity_json(const Capacity& capacity,
                                  const std::vector<Objective>& objectives);
std::string capacity_text(const Capacity& capacity, const std::vector<Objective>& objectives);

} // namespace paceline::apps::load
