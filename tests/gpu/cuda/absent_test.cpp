// What answers where CUDA was not built, in a program that was linked with it.
#include "gpu/cuda/survey.hpp"
#include "gpu/device.hpp"
#include "tests/gpu/support.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::gpu;

TEST_CASE("without CUDA a GPU is an error of one line, and a survey says why there is none") {
  for (const char* name : {"cuda", "cuda:0", "cuda:99"}) {
    CAPTURE(name);
    const auto opened = open_device(name, {0, std::make_shared<testing::RealTime>(), nullptr});
    REQUIRE(!opened);
    CHECK(opened.error().code == ErrorCode::unsupported);
    CHECK(opened.error().message.find(name) != std::string::npos);
    CHECK(opened.error().message.find("this build has no CUDA") != std::string::npos);
    CHECK(opened.error().hint.find("EngineOptions::devices = cpu") != std::string::npos);
    CHECK(opened.error().text().find('\n') == std::string::npos);
  }
  const cuda::Survey survey = cuda::survey();
  CHECK(!survey.toolkit);
  CHECK(!survey.driver);
  CHECK(survey.gpus.empty());
  REQUIRE(survey.unusable);
  CHECK(survey.unusable->message.find("this build has no CUDA") != std::string::npos);
}
