// Whether a template can be compiled: what it calls must be there.
#pragma once

#include "text/chat_template/syntax.hpp"

namespace paceline::text::jinja {

/// A filter or a test that is not known is a Failure before anything is rendered. What stands under
/// a condition may never be reached, and so fails only where it is: Jinja has it the same way.
void check_names(const Template& source);

} // namespace paceline::text::jinja
