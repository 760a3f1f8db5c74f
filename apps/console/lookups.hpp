// What look-ups may find where modes, rates or runs are compared.
#pragma once

#include "paceline/engine.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace paceline::apps {

/// Request::draft_scope of one measurement: a look-up finds no answer that was given in another
/// one, which asks for the same texts.
std::string measured_scope(std::string_view what, int repetition);

/// {"suffix": "its own text, and earlier answers of the same mode and repetition"}: what each
/// look-up that drafts had seen. scope: whose answers had one Request::draft_scope; empty: no
/// others'. Empty where no look-up drafts.
boost::json::object lookups_json(const Engine& engine, std::string_view scope);
/// The same for people: a line, without its end, or nothing. lookups: as lookups_json has them.
std::string lookups_text(const boost::json::object& lookups);

} // namespace paceline::apps
