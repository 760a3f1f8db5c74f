// The texts that look-ups may find when modes, rates or runs are compared.
#pragma once

#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Returns the Request::draft_scope of one measurement: a look-up then finds no answer of another
/// measurement, which asks for the same texts.
std::string measured_scope(std::string_view what, int repetition);

/// Returns the texts that each look-up in use had seen: {"suffix": "its own text, and earlier
/// answers of the same mode and repetition"}. scope: the requests whose answers shared one
/// Request::draft_scope; empty: each had its own. The object is empty if no look-up drafts.
boost::json::object lookups_json(const Engine& engine, std::string_view scope);
/// Returns a line for people, without its end, or nothing. lookups: the result of lookups_json.
std::string lookups_text(const boost::json::object& lookups);

} // namespace paceline::apps
