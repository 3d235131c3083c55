#include "widgets/plots/value_tile.h"

#include <QPainter>
#include <utility>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

ValueTile::ValueTile(Selection* selection, const QString& name, std::function<QString()> value, QWidget* parent)
    : QAbstractButton(parent), value_(std::move(value)) {
  setText(name);
  setAccessibleName(name);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  const auto refresh = [this] { update(); };
  connect(selection, &Selection::dataChanged, this, refresh);
  connect(selection, &Selection::timeChanged, this, refresh);
  connect(selection, &Selection::focusChanged, this, refresh);
}

void ValueTile::setPlace(std::function<QStringList()> place) {
  place_ = std::move(place);
  updateGeometry();
}

QSize ValueTile::sizeHint() const {
  return {fontMetrics().horizontalAdvance(text()) + 12, (place_ ? 3 : 2) * fontMetrics().height() + 5};
}

void ValueTile::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const int line = fontMetrics().height(), room = width() - 10;
  if (isChecked()) {
    QColor ground = QColor(colors(palette()).accent);
    ground.setAlpha(50);
    painter.fillRect(rect(), ground);
    painter.fillRect(QRect(0, height() - 2, width(), 2), QColor(colors(palette()).accent));
  }
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(5, 1, room, line), Qt::AlignLeft, fontMetrics().elidedText(text(), Qt::ElideRight, room));
  painter.setPen(palette().text().color());
  const QString value = value_();
  painter.drawText(QRect(5, line + 1, room, line), Qt::AlignLeft,
                   fontMetrics().elidedText(value, Qt::ElideRight, room));
  const QStringList place = place_ ? place_() : QStringList();
  if (!place.isEmpty()) {
    painter.setPen(mutedText(palette()));
    painter.drawText(QRect(5, 2 * line + 1, room, line), Qt::AlignLeft, firstThatFits(place, fontMetrics(), room));
  }
  const QString whole = place.isEmpty() ? value : value + QStringLiteral(", ") + place.front();
  if (accessibleDescription() != whole) setAccessibleDescription(whole);
  if (hasFocus()) {
    painter.setPen(QColor(colors(palette()).accent));
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

}  // namespace moescope
