// The form that a body asks its answer to have, in the fields of OpenAI's API and of other engines.
#pragma once

#include "apps/server/api.hpp"
#include "apps/server/fields.hpp"
#include "paceline/request.hpp"

#include <optional>
#include <string>

namespace paceline::apps::serve {

struct Form {
  Constraint constraint;
  std::string field; ///< The field as errors name it, such as "response_format.json_schema".
};

/// Reads response_format (text.format in a response's request), vLLM's structured_outputs and
/// guided_*, llama.cpp's grammar and json_schema, SGLang's regex, ebnf and structural_tag. A body
/// may have one form; two are an error that names both.
std::optional<Form> read_form(Fields& fields, Api api);

} // namespace paceline::apps::serve
