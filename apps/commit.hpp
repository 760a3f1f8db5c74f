// Which sources the program was built from.
#pragma once

namespace paceline::apps {

/// Returns the commit's abbreviated hash, with "-dirty" behind it if files differed; empty: the
/// sources were no repository.
const char* commit();

} // namespace paceline::apps
