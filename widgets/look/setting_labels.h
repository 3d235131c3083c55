// Settings in texts of the screen by their labels, as the set-up shows them, in place of their keys.
#pragma once

#include <QString>

namespace moescope {

// Returns the text with labels for keys of settings: router.top_k becomes "Experts per token", in quotes.
QString withSettingLabels(const QString& text);

// Returns the label of a setting, of which `name` is the key or the name in the log of another program.
QString settingLabel(const QString& name);

}  // namespace moescope
