// The setting Run > Matrix units: kept from start to start, and chosen before anything is multiplied. A process keeps
// its units (core/numerics/matrix_units.h), so a change holds from the next start on.
#pragma once

#include <QString>

namespace moescope {

QString keptMatrixUnits();  // one of kMatrixUnitChoices; at first "auto"
void keepMatrixUnits(const QString& choice);

// Who chose the units of this process.
struct UnitsOfStart {
  QString by;    // "--matrix-units" or the variable of the environment; empty: the setting
  QString note;  // where they are not what the setting says: what holds, and why; empty: they are
};
// `given`: what --matrix-units says, which has been chosen; empty: it is not there. Goes before the variable of the
// environment, and that before the setting. Call once, in main().
UnitsOfStart chooseKeptMatrixUnits(const QString& given);

}  // namespace moescope
