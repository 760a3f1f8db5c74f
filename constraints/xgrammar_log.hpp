// The handling of xgrammar's messages: they go into a list, not to standard error.
#pragma once

#include <string>
#include <vector>

namespace paceline::constraints {

/// Keeps what xgrammar warns of on this thread while the object lives: mostly parts of a form that
/// it would ignore.
class Warnings {
public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> said;

private:
  Warnings* outer_;
};

} // namespace paceline::constraints
