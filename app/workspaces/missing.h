// Which data that panels show is missing in a log. An empty text means that the data is there. For
// Workspace::foldWithout().
#pragma once

#include <QString>

#include "core/recording/history/history.h"

namespace moescope {

QString copiesMissing(const History& run);        // copies between ranks
QString loadsMissing(const History& run);         // tokens per expert
QString quantizationMissing(const History& run);  // statistics of quantized operands
QString textsMissing(const History& run, TextKind kind);

// Returns `what` unless one of the newest frames has router figures that `has` accepts. Looks at several frames, since
// a log may have some figures only on some steps.
QString routersMissing(const History& run, bool (*has)(const RouterFrame&), const char* what);

}  // namespace moescope
