// The table of the effects of a number format on a checkpoint, operand by operand
// (core/checkpoints/ablation/scans.h).
#pragma once

#include <QStandardItemModel>
#include <QString>
#include <QStringList>
#include <vector>

#include "core/files/text/value_table.h"
#include "core/frame/model_scans.h"

namespace moescope {

struct MeasuredTwins {
  QString run;  // letter and name of the run
  PrecisionScan scan;
};

inline constexpr const char* kLongestDivergence = "0.000000 \u00b1 0.000000";

std::vector<Recipe> forwardRecipes();  // recipes whose forward passes differ, without fp32
void fillTwins(QStandardItemModel& model, const PrecisionScan& scan);
QStringList twinsAnswers(const PrecisionScan& scan);  // names the operand that costs most, from long to short
ValueTable twinsTable(const PrecisionScan& scan);

}  // namespace moescope
