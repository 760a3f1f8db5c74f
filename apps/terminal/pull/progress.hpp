// How far a pull is, on a terminal.
#pragma once

#include "apps/console/terminal.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace paceline::apps::pull {

class Progress {
public:
  /// total: bytes of all files.
  Progress(std::string name, std::uint64_t total) : name_(std::move(name)), total_(total) {}

  /// What is there of the next file is being read.
  void check() { fetching_ = false; }
  /// The rest of it is being fetched. have: bytes of it that are there.
  void fetch(std::uint64_t have);
  /// So many bytes of this file are there.
  void show(std::uint64_t have);
  /// The file has so many, and is done.
  void done(std::uint64_t size) { before_ += size; }
  /// Writes a line for people.
  void remark(const std::string& text);
  void clear() { line_.clear(); }

private:
  std::string name_;
  std::uint64_t total_;
  std::uint64_t before_ = 0; ///< Bytes of the files that are done.
  bool fetching_ = false;
  std::uint64_t fetched_ = 0; ///< Bytes that came in this run.
  std::uint64_t last_ = 0;    ///< Bytes of this file that were there when it was last shown.
  std::chrono::steady_clock::time_point begin_{}; ///< Of the first that came.
  ProgressLine line_;
};

} // namespace paceline::apps::pull
