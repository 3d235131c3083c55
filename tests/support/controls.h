// Finds the controls of a panel or window as a user does: by their name or by their text.
#pragma once

#include <QAbstractButton>
#include <QComboBox>

namespace moescope {

// Returns the control with this accessible name; ends the program if there is none.
template <class Control>
Control* control(const QWidget* in, const QString& name) {
  for (Control* control : in->findChildren<Control*>())
    if (control->accessibleName() == name) return control;
  qFatal("no control is named %s", qPrintable(name));
}

// Returns the button with this text; a colon and a value after it are ignored. Ends the program if there is none.
inline QAbstractButton* button(const QWidget* in, const QString& text) {
  for (QAbstractButton* button : in->findChildren<QAbstractButton*>())
    if (button->text().section(QLatin1Char(':'), 0, 0) == text) return button;
  qFatal("no button says %s", qPrintable(text));
}

inline void choose(const QWidget* in, const QString& box, const QString& item) {
  auto* choice = control<QComboBox>(in, box);
  const int place = choice->findText(item);
  if (place < 0) qFatal("%s: no choice says %s", qPrintable(box), qPrintable(item));
  choice->setCurrentIndex(place);
  emit choice->activated(place);
}

}  // namespace moescope
