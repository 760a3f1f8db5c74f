#include "messages/chain.hpp"

#include <doctest/doctest.h>
