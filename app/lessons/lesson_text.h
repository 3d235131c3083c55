// How the page of a lesson is written: larger than the rest of the window, so that it can be read from a step away.
#pragma once

#include <QBoxLayout>
#include <QLabel>

namespace moescope {

inline constexpr double kLessonTextSize = 1.12;  // of the application's font

void setType(QWidget* widget, double factor, bool bold = false);  // so many times the application's
void renewType(const QWidget* page);                              // of all in it, once the application's has changed
QLabel* addLessonText(QBoxLayout* column);                        // Markdown that wraps
void clearAfter(QBoxLayout* column, int widgets);                 // deletes those that follow the first so many

}  // namespace moescope
