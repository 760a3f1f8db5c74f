// The version of the library that these headers belong to.
#pragma once

#define PACELINE_VERSION_MAJOR 0
#define PACELINE_VERSION_MINOR 1
#define PACELINE_VERSION_PATCH 0
#define PACELINE_VERSION "0.1.0"
