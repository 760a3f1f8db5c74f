#include "apps/server/replica.hpp"

#include "apps/server/client_names.hpp"

#include <fmt/format.h>

namespace paceline::apps::serve {
std::string capacity_of(const Engine& engine) {
  const int requests = engine.metrics().full_length_requests;
  return fmt::format("The KV cache has room for {} request{} of {} tokens at a time, and for more "
                     "that are shorter.",
                     requests, requests == 1 ? "" : "s", engine.target().max_model_len);
}

Replica::Replica(std::string model, int number, std::shared_ptr<Engine> engine,
                 const ParserNames& parsers)
    : model_(std::move(model)), engine_(std::move(engine)),
      chat_style_(style_of(*engine_, parsers)), metrics_(model_, number) {
  const ModelInfo target = engine_->target();
  vocabulary_ = target.vocabulary;
  max_model_len_ = target.max_model_len;
  fingerprint_ = fingerprint_of(target);
}

} // namespace paceline::apps::serve
