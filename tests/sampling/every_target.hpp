// Runs a test on every instruction set that this machine has and the kernels were compiled for.
#pragma once

#include <doctest/doctest.h>
#include <hwy/highway.h>
#include <string>

namespace paceline::testing {

template <class Body>
void on_every_target(Body body) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    const std::string instruction_set = hwy::TargetName(target);
    CAPTURE(instruction_set);
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

} // namespace paceline::testing
