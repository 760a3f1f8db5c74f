#include "messages/interfaces.hpp"
