#include "widgets/plots/accessible_plot.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QTimer>

#include "widgets/plots/plot_frame.h"

namespace moescope {

namespace {

constexpr int kAnnounceMs = 1000;

// Accessible name of the widget, or of its nearest parent that has one, for example its panel.
QString nameOf(const QWidget* widget) {
  for (; widget; widget = widget->parentWidget())
    if (!widget->accessibleName().isEmpty()) return widget->accessibleName();
  return {};
}

// QAccessibleValueInterface is for a single number, but the value of a plot is a text. Platforms that ignore values
// which are texts get it as the description.
class AccessiblePlot : public QAccessibleWidget {
 public:
  explicit AccessiblePlot(PlotFrame* plot) : QAccessibleWidget(plot, QAccessible::Chart) {}

  QString text(QAccessible::Text which) const override {
    const auto* plot = static_cast<const PlotFrame*>(widget());
    if (which == QAccessible::Name) return nameOf(plot);
    if (which == QAccessible::Value || which == QAccessible::Description) return plot->valueText();
    return QAccessibleWidget::text(which);
  }
};

QAccessibleInterface* makeAccessible(const QString&, QObject* object) {
  auto* plot = qobject_cast<PlotFrame*>(object);
  return plot ? new AccessiblePlot(plot) : nullptr;
}

}  // namespace

void installAccessiblePlots() {
  QAccessible::installFactory(makeAccessible);  // Qt ignores a factory that is installed already
}

void announceValueOf(PlotFrame* plot) {
  if (!QAccessible::isActive()) return;
  auto* timer = plot->findChild<QTimer*>("announce", Qt::FindDirectChildrenOnly);
  if (!timer) {
    timer = new QTimer(plot);
    timer->setObjectName("announce");
    timer->setSingleShot(true);
    timer->setInterval(kAnnounceMs);
    QObject::connect(timer, &QTimer::timeout, plot, [plot] {
      QAccessibleEvent event(plot, QAccessible::DescriptionChanged);
      QAccessible::updateAccessibility(&event);
    });
  }
  if (!timer->isActive()) timer->start();
}

}  // namespace moescope
