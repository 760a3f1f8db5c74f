#include "apps/terminal/race/recording.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {

void Recording::add(const Delta& delta, double seconds) {
  steps.push_back({seconds, delta.text, int(delta.tokens.size())});
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
}

double Recording::seconds() const {
  return end && !steps.empty() ? steps.back().seconds : 0;
}

RaceLane lane_at(const Recording& recording, double seconds) {
  RaceLane lane;
  lane.name = recording.name;
  double last = 0;
  for (const Recording::Step& step : recording.steps) {
    if (step.seconds > seconds)
      break;
    lane.text += step.text;
    lane.tokens += step.tokens;
    last = step.seconds;
  }
  lane.finished = recording.end && seconds >= recording.seconds();
  lane.seconds = lane.finished ? recording.seconds() : 0;
  const double took = lane.finished ? recording.seconds() : std::max(seconds, last);
  lane.rate = took > 0 ? lane.tokens / took : 0;
  return lane;
}

std::string verdict(const std::vector<Recording>& recordings) {
  const auto faster = [](const Recording& a, const Recording& b) {
    return a.seconds() < b.seconds();
  };
  const auto winner = std::min_element(recordings.begin(), recordings.end(), faster);
  if (winner == recordings.end() || winner->seconds() <= 0)
    return "nobody wins: nothing was decoded";
  std::string text = winner->name + " wins:";
  const char* between = " ";
  for (const Recording& other : recordings) {
    if (&other == &*winner)
      continue;
    text += fmt::format("{}{:.2f} times as fast as {}", between,
                        other.seconds() / winner->seconds(), other.name);
    between = ", ";
  }
  return text;
}

} // namespace paceline::apps
