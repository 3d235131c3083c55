// "Compare with..." for one setting: a context menu of values that run A could have instead, one click for a twin.
#pragma once

#include <QString>
#include <functional>
#include <vector>

#include "core/config/config_field.h"

class QMenu;
class QWidget;

namespace moescope {

// The other choices, the other side of a switch, or for numbers half, twice, a tenth and ten times, where allowed.
std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& now);

struct TwinOffers {
  std::function<ConfigValue()> now;                // the present value
  std::function<bool()> possible;                  // whether a twin could be trained
  std::function<void(const ConfigValue&)> chosen;  // a value
  std::function<void()> other;                     // "another value"
};
void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers);
// As the context menu of `part`.
void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers);

}  // namespace moescope
