// The context menu "Compare with..." of a setting: values for a twin of run A. A click on a value trains the twin.
#pragma once

#include <QString>
#include <functional>
#include <vector>

#include "core/config/config_field.h"

class QMenu;
class QWidget;

namespace moescope {

// Returns the offered values: the other choices; the other state of a switch; or half, twice, a tenth and ten times a
// number. Values that are not allowed are left out.
std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& current);

struct TwinOffers {
  std::function<ConfigValue()> present;            // the present value
  std::function<bool()> possible;                  // true if a twin can be trained now
  std::function<void(const ConfigValue&)> chosen;  // a value was chosen
  std::function<void()> other;                     // "another value" was chosen
};
void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers);
// Installs the context menu on `part`.
void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers);

}  // namespace moescope
