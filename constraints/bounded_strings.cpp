#include "constraints/bounded_strings.hpp"

namespace paceline::constraints {
namespace {

thread_local std::shared_ptr<MaskRoom> room_in_use;

} // namespace

MaskRoom::Use::Use(std::shared_ptr<MaskRoom> room)
    : outer_(std::exchange(room_in_use, std::move(room))) {}

MaskRoom::Use::~Use() {
  room_in_use = std::move(outer_);
}

std::shared_ptr<MaskRoom> MaskRoom::used() {
  return room_in_use;
}

} // namespace paceline::constraints
