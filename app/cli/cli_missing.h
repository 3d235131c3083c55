// What a command says of a recording whose log was not copied along.
#pragma once

#include "core/telemetry/recording/recording.h"

namespace moescope {

void print_missing(const RecordingReader& recording);  // to standard error; nothing where nothing is missing

}  // namespace moescope
