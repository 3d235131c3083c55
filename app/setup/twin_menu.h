// The context menu "Compare with..." of a setting: values that a twin of run A could have, one click for a twin.
#pragma once

#include <QString>
#include <functional>
#include <vector>

#include "core/config/config_field.h"

class QMenu;
class QWidget;

namespace moescope {

// The offered values: the other choices, the other state of a switch, or of a number the half, twice, a tenth and ten
// times, as far as allowed.
std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& now);

struct TwinOffers {
  std::function<ConfigValue()> now;                // the present value
  std::function<bool()> possible;                  // whether a twin could be trained
  std::function<void(const ConfigValue&)> chosen;  // a value was chosen
  std::function<void()> other;                     // "another value" was chosen
};
void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers);
// Installs the context menu on `part`.
void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers);

}  // namespace moescope
