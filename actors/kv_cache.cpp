#include "actors/kv_cache.hpp"
