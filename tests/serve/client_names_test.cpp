// What clients see of the machines behind a server.
#include "apps/server/client_names.hpp"
#include "apps/server/errors.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::apps::serve;

namespace {

ModelInfo target_on(const std::string& device) {
  ModelInfo target;
  target.device = device;
  target.kernel = "highway";
  target.dtype = target.weights = target.head_weights = "bf16";
  return target;
}

} // namespace

TEST_CASE("a fingerprint is a numeric setting, wherever that is") {
  const std::string here = fingerprint_of(target_on("cpu"));
  CHECK(here.ends_with("-cpu-highway-bf16"));
  for (const char* device : {"cpu:0-3", "cpu:0+cpu:1", "cpu:0+node://10.0.0.7:7000/cpu:1+cpu:0",
                             "cpu:0+node://10.0.0.7:7000", "cpu:0+node://[fe80::1]:7000/cpu"}) {
    CAPTURE(device);
    CHECK(fingerprint_of(target_on(device)) == here);
  }
  CHECK(fingerprint_of(target_on("cpu:0+node://there:7000/cuda:1")) != here);
  ModelInfo divided = target_on("cpu:0|cpu:1");
  divided.shards = 2;
  CHECK(fingerprint_of(divided) == here + "-2-shards");
  ModelInfo cached = target_on("cpu");
  cached.kv_cache_dtype = "int8";
  CHECK(fingerprint_of(cached) == here + "-int8-cache");
}

TEST_CASE("a fingerprint says where rows are rounded between machines, and only then") {
  ModelInfo target = target_on("cpu:0+node://a:7000+cpu:1+node://b:7000+node://c:7000+cpu:0");
  const std::string exact = fingerprint_of(target);
  const auto stage = [](int layers, const char* crossing) {
    StageInfo info;
    info.layers = layers;
    info.crossing_rows = crossing;
    return info;
  };
  target.stages = {stage(3, ""),    stage(4, "f32"), stage(2, ""),
                   stage(5, "f32"), stage(6, "f32"), stage(0, "")};
  CHECK(fingerprint_of(target) == exact);
  for (StageInfo& each : target.stages)
    if (!each.crossing_rows.empty())
      each.crossing_rows = "bf16";
  CHECK(fingerprint_of(target) == exact + "-bf16-rows-at-3+7+9+14+20");
}

TEST_CASE("no client is told where a node is") {
  const Error lost{ErrorCode::unavailable,
                   "node://there.example:7000/cpu:1, where a stage of the target is, was lost",
                   "start node://[fe80::1]:7000/cpu:0: it is asked again"};
  const Error told = for_clients(lost);
  CHECK(told.message == "a node, where a stage of the target is, was lost");
  CHECK(told.hint == "start a node: it is asked again");
  const ApiError error = api_error(lost);
  CHECK(error.status == 503);
  CHECK(error.message.find("7000") == std::string::npos);
  CHECK(without_addresses("cpu:0+node://10.0.0.7:7000/cpu:1") == "cpu:0+a node");
  CHECK(without_addresses("nobody answers at node://10.0.0.7:7000.") ==
        "nobody answers at a node.");
}
