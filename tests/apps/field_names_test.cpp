#include "apps/console/field_names.hpp"
#include "apps/console/options.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using apps::with_options;
using apps::with_request_fields;

TEST_CASE("a field of the library reads as the option that sets it") {
  CHECK(with_options("give EngineOptions::kv_memory_bytes at least 7, or lower "
                     "EngineOptions::max_model_len") ==
        "give --kv-memory at least 7, or lower --max-model-len");
  CHECK(with_options("use EngineOptions::devices = cpu") == "use --device cpu");
  CHECK(with_options("EngineOptions::prefill_chunk is 3 with EngineOptions::prefill = fast") ==
        "--prefill-chunk is 3 with --prefill fast");
  CHECK(with_options("EngineOptions::window: none") == "--window: none");
}

TEST_CASE("what is no field, or has no option, stays as it is") {
  for (const char* text : {"", "a = b: c::d, e", "EngineOptions::page_tokens is 3",
                           "EngineOptions::faults.restarts_max is -1", "EngineOptions::"})
    CHECK(with_options(text) == text);
}

TEST_CASE("who sends requests is told their fields, and the server's options") {
  const Error error = with_request_fields({ErrorCode::invalid_argument, "Sampling::top_p is 3",
                                           "Request::max_tokens, EngineOptions::max_model_len"});
  CHECK(error.text() == "top_p is 3: max_tokens, --max-model-len");
}

TEST_CASE("the options that fields are known by are the program's") {
  CLI::App app;
  EngineOptions engine;
  Request request;
  apps::add_model_options(app, engine);
  apps::add_speculation_options(app, engine, request);
  apps::add_sampling_options(app, request);
  for (const char* field : {"EngineOptions::target",
                            "EngineOptions::drafters",
                            "EngineOptions::devices",
                            "EngineOptions::draft_devices",
                            "EngineOptions::reserve_device",
                            "EngineOptions::threads",
                            "EngineOptions::dtype",
                            "EngineOptions::max_model_len",
                            "EngineOptions::kv_memory_bytes",
                            "EngineOptions::max_num_seqs",
                            "EngineOptions::prefill",
                            "EngineOptions::prefill_chunk",
                            "EngineOptions::speculation",
                            "EngineOptions::window",
                            "EngineOptions::lookahead",
                            "EngineOptions::fork_rows",
                            "Request::max_tokens",
                            "Request::stop",
                            "Sampling::temperature",
                            "Sampling::top_k",
                            "Sampling::top_p",
                            "Sampling::min_p",
                            "Sampling::repetition_penalty",
                            "Sampling::presence_penalty",
                            "Sampling::frequency_penalty"}) {
    CAPTURE(field);
    CHECK(app.get_option_no_throw(with_options(field)) != nullptr);
  }
}
