// Checkpoint folders written once more as GGUF files, as converters do it.
#pragma once

#include "tests/models/support.hpp"
#include "tests/support/gguf_writer.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>

namespace paceline::models::test {

using testing::GgufWriter;

/// Returns the size that a configuration says, or `absent`.
std::size_t size_in(const boost::json::object& config, const char* key, std::size_t absent = 0);

/// What a config.json says, in the keys of an architecture ("llama").
GgufWriter gguf_metadata(const std::string& architecture, boost::json::object config);

/// The folder's config.json and model.safetensors. Matrices stay in their type, all else is f32.
GgufWriter to_gguf(const std::string& folder, const std::string& architecture);

} // namespace paceline::models::test
