// The warning of a command about a recording whose log was not copied along.
#pragma once

#include "core/telemetry/recording/recording.h"

namespace moescope {

void print_missing(const RecordingReader& recording);  // to standard error, if anything is missing

}  // namespace moescope
