#include "tests/text/kinds.hpp"

#include "tests/support/files.hpp"
#include "text/json.hpp"
#include "text/tokenizer/pipeline.hpp"

#include <boost/json.hpp>
#include <stdexcept>

namespace paceline::text::test {
namespace json = boost::json;
namespace {

const std::string data_folder = std::string(PACELINE_TEST_DATA) + "/tokenizers/";

json::object read(const std::string& path) {
  auto object = parse_json_object(path, testing::read_file(path));
  if (!object)
    throw std::runtime_error(object.error().text());
  return std::move(*object);
}

json::object base_of(const std::string& name) {
  return name == "bytes" ? read(std::string(PACELINE_DEMO_MODELS) + "/target/tokenizer.json")
                         : read(data_folder + name + ".json");
}

void change_model(json::object& model, const json::object& changes) {
  json::value& vocab = model["vocab"];
  for (const auto& [key, value] : changes) {
    if (key == "extra") {
      for (const json::value& token : value.as_array())
        if (vocab.is_object())
          vocab.as_object()[token.as_string()] = std::int64_t(vocab.as_object().size());
        else
          vocab.as_array().push_back(json::array{token, 0.0});
    } else if (key == "without") {
      for (const json::value& token : value.as_array())
        vocab.as_object().erase(token.as_string());
    } else if (key == "merges_as_pairs") {
      for (json::value& merge : model["merges"].as_array()) {
        const std::string text(merge.as_string());
        const auto space = text.find(' ');
        merge = json::array{text.substr(0, space), text.substr(space + 1)};
      }
    } else {
      model[key] = value;
    }
  }
}

/// tokenizer.json of a kind, put together as tools/reference/tokenizer_kinds.py does it.
json::object build(const json::object& kind) {
  json::object out = base_of(std::string(kind.at("base").as_string()));
  const json::value own = out["normalizer"];
  for (const auto& [key, value] : kind.at("parts").as_object()) {
    if (key == "model") {
      change_model(out["model"].as_object(), value.as_object());
    } else if (key == "normalizer" && value.is_array()) {
      json::array steps = value.as_array();
      for (json::value& step : steps)
        if (step == "charsmap")
          step = own;
      out[key] = json::object{{"type", "Sequence"}, {"normalizers", steps}};
    } else {
      out[key] = value;
    }
  }
  return out;
}

} // namespace

std::vector<Kind> tokenizer_kinds() {
  const json::value all = read(data_folder + "kinds.json");
  std::vector<Kind> out;
  for (const json::value& value : all.at("kinds").as_array()) {
    const json::object& from = value.as_object();
    Kind kind;
    kind.name = from.at("name").as_string();
    const auto tokenizer = Pipeline::read(kind.name, build(from));
    if (!tokenizer)
      throw std::runtime_error(tokenizer.error().text());
    kind.tokenizer = *tokenizer;
    kind.lossless = from.at("lossless").as_bool();
    for (const json::array* texts : {&all.at("texts").as_array(), &from.at("texts").as_array()})
      for (const json::value& text : *texts)
        kind.texts.emplace_back(text.as_string());
    kind.ids = from.at("ids").as_string();
    kind.decoded = from.at("decoded").as_string();
    out.push_back(std::move(kind));
  }
  return out;
}

} // namespace paceline::text::test
