// Rows and columns without margins, and areas that scroll, for parts of panels, bars and dialogs.
#pragma once

#include <QHBoxLayout>
#include <QScrollArea>
#include <QVBoxLayout>

namespace moescope {

// `spacing`: in pixels; if negative, the spacing of the style. `widget`: gets the layout; nullptr: for use inside a
// layout.
inline QHBoxLayout* plainRow(QWidget* widget, int spacing = -1) {
  auto* row = new QHBoxLayout(widget);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(spacing);
  return row;
}
inline QHBoxLayout* plainRow(int spacing) {
  return plainRow(nullptr, spacing);
}

inline QVBoxLayout* plainColumn(QWidget* widget, int spacing = -1) {
  auto* column = new QVBoxLayout(widget);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(spacing);
  return column;
}
inline QVBoxLayout* plainColumn(int spacing) {
  return plainColumn(nullptr, spacing);
}

// Scrolls up and down only, without a frame.
inline QScrollArea* scrollOf(QWidget* content) {
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setWidget(content);
  return scroll;
}

// Deletes the items of a layout and their widgets.
inline void clearLayout(QLayout* layout) {
  while (QLayoutItem* item = layout->takeAt(0)) {
    delete item->widget();
    delete item;
  }
}

}  // namespace moescope
