#include "app/session/unit_setting.h"

#include <algorithm>

#include "app/session/settings.h"
#include "core/numerics/matrix_units.h"

namespace moescope {

namespace {

constexpr const char* kKey = "matrix_units";
constexpr const char* kAuto = "auto";

UnitsOfStart chosenBy(const QString& by, const QString& choice) {
  const QString kept = keptMatrixUnits();
  if (choice == kept) return {by, {}};
  return {
      by,
      QString("%1 says %2, which holds for this start; the setting Run > Matrix units is %3").arg(by, choice, kept)};
}

}  // namespace

QString keptMatrixUnits() {
  const QString kept = settings().value(kKey).toString();
  const bool known = std::ranges::find(kMatrixUnitChoices, kept.toStdString()) != std::end(kMatrixUnitChoices);
  return known ? kept : kAuto;
}

void keepMatrixUnits(const QString& choice) {
  settings().setValue(kKey, choice);
}

UnitsOfStart chooseKeptMatrixUnits(const QString& given) {
  if (!given.isEmpty()) return chosenBy("--matrix-units", given);
  if (qEnvironmentVariableIsSet(kMatrixUnitsVariable))
    return chosenBy(kMatrixUnitsVariable, qEnvironmentVariable(kMatrixUnitsVariable));
  const QString kept = keptMatrixUnits();
  for (const MatrixUnitChoice& choice : matrix_unit_choices()) {
    if (kept.toStdString() != choice.name) continue;
    const std::string problem = choice.lacks.empty() ? choose_matrix_unit(choice.name) : choice.lacks;
    if (!problem.empty())
      return {{}, QString("the setting Run > Matrix units is %1, but %2").arg(kept, QString::fromStdString(problem))};
  }
  return {};
}

}  // namespace moescope
