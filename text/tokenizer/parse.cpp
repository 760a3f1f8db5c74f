// Makes a tokenizer, in a file of its own so that the interface need not know its parts.
#include "text/json.hpp"
#include "text/tokenizer/pipeline.hpp"

namespace paceline::text {

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(const std::string& name,
                                                          std::string_view json) {
  return parse_json_object(name, json).and_then([&](const boost::json::object& root) {
    return Pipeline::read(name, root);
  });
}

} // namespace paceline::text
