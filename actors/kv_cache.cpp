#include "actors/kv_cache.hpp"

namespace paceline::actors {

using namespace scheduling;
using messages::Ping;
using messages::Pong;

messages::KvCacheActor::behavior_type KvCache::make_behavior() {
  return {
      [this](const KvReserve& wanted) {
        KvGrant grant = pages_.reserve(wanted);
        pages_.account();
        return grant;
      },
      [this](const KvGrow& wanted) {
        KvGrant grant = pages_.grow(wanted);
        pages_.account();
        return grant;
      },
      [this](const KvRelease& done) {
        pages_.release(done);
        pages_.account();
      },
      [this](const KvPublish& valid) {
        pages_.publish(valid);
        pages_.account();
      },
      [this](const KvReset&) {
        pages_.reset();
        pages_.account();
      },
      [this](const Ping&) {
        pages_.account();
        return Pong{};
      },
  };
}

} // namespace paceline::actors
