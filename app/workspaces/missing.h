// Says which data a log lacks that panels show; empty: it has them. For Workspace::foldWithout().
#pragma once

#include <QString>

#include "core/history/history.h"

namespace moescope {

QString copiesMissing(const History& run);        // copies between ranks
QString loadsMissing(const History& run);         // tokens per expert
QString quantizationMissing(const History& run);  // statistics of quantized operands
QString textsMissing(const History& run, TextKind kind);

// `what`, unless one of the newest frames has router figures that `has` accepts. A log may have some figures on some
// steps only.
QString routersMissing(const History& run, bool (*has)(const RouterFrame&), const char* what);

}  // namespace moescope
