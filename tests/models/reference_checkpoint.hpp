// Tiny checkpoints as tools/reference/checkpoints.py describes them in data/checkpoints.json: a
// config.json as the hub has it, and weights that are a function of their names.
#pragma once

#include "gpu/tensor.hpp"
#include "models/model.hpp"
#include "tests/models/support.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <vector>

namespace paceline::models::test {

/// All cases of the file.
const boost::json::array& reference_cases();
/// The case of this name.
const boost::json::object& reference_case(std::string_view name);

/// Names of cases with recurrent layers: every kind of mixer, dense models and mixtures.
inline constexpr const char* recurrent_cases[] = {"Qwen 3.5",
                                                  "Qwen 3.5 that ends with a recurrent layer",
                                                  "Qwen 3.5 MoE",
                                                  "Granite 4",
                                                  "Granite 4 without experts, with its options",
                                                  "LFM 2",
                                                  "LFM 2 with its options",
                                                  "LFM 2 MoE",
                                                  "LFM 2 MoE with its options",
                                                  "Nemotron-H",
                                                  "Nemotron-H with its options",
                                                  "Nemotron-H MoE"};

/// The blocks that draft, of some of these cases (tools/reference/mtp.py).
const boost::json::array& mtp_cases();
/// The case of this name, with the block that drafts for it.
boost::json::object case_with_mtp(std::string_view name);

/// Gemma 4's assistants for some of these cases (tools/reference/gemma4_assistant.py); the second
/// one says the ids of clusters.
const boost::json::array& assistant_cases();

/// Writes the case's checkpoint, in as many shards as it says; a head's with its tables of ids.
void write_checkpoint(const TemporaryFolder& folder, const boost::json::object& entry,
                      gpu::DType dtype);

/// The same, loaded; `change` is merged into config.json.
Result<std::shared_ptr<const Model>> load_reference(const boost::json::object& entry,
                                                    gpu::DType dtype,
                                                    const boost::json::object& change = {});

} // namespace paceline::models::test
