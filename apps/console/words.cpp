#include "apps/console/words.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/stores.hpp"
#include "paceline/weight_format.hpp"

#include <algorithm>

namespace paceline::apps {

std::vector<std::string> model_words() {
  std::vector<std::string> words{"demo", "scripted"};
  for (const models::StoredModel& model : models::stored_models())
    if (const std::string name = model.name.text(); std::ranges::count(words, name) == 0)
      words.push_back(name);
  return words;
}

std::vector<std::string> draft_words() {
  std::vector<std::string> words = model_words();
  words.insert(words.end(),
               {"suffix", "ngram", "none", "mtp", "eagle3:demo", "dflash:", "gemma4-assistant:"});
  for (const std::string& format : weight_format_words())
    words.push_back("self:" + format);
  return words;
}

std::vector<std::string> weight_format_words() {
  std::vector<std::string> words;
  for (const WeightFormat format : gpu::mx_formats)
    words.emplace_back(to_string(format));
  return words;
}

} // namespace paceline::apps
