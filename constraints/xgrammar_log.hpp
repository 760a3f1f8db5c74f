// Where xgrammar's messages go: into a list, not onto anybody's screen.
#pragma once

#include <string>
#include <vector>

namespace paceline::constraints {

/// While it lives, what xgrammar warns of on this thread is kept: mostly parts of a form that it
/// would leave out.
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
