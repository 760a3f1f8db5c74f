// The display of a race: a screen of frames while it runs, and how it ended.
#pragma once

#include "apps/terminal/race/frame.hpp"
#include "apps/terminal/race/screen.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::apps {

class RaceShow {
public:
  /// how: whether they ran one after another, or at once. tokens: RaceScene::tokens_wanted.
  RaceShow(Output& out, std::string how, int tokens)
      : out_(out), how_(std::move(how)), tokens_(tokens) {}

  /// Takes the terminal's screen. Without this call nothing is drawn before the end.
  void open() { screen_ = std::make_unique<OtherScreen>(out_); }
  /// Draws the state at that time.
  void draw(const std::vector<Recording>& lanes, double seconds);
  /// Prints the end, on the screen that was there before.
  void close(const std::vector<Recording>& lanes);

private:
  RaceScene scene(const std::vector<Recording>& lanes, double seconds, std::string result) const;

  Output& out_;
  std::string how_;
  int tokens_;
  std::unique_ptr<OtherScreen> screen_;
};

} // namespace paceline::apps
