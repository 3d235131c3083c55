#include "app/start/empty_panel_button.h"

#include <QEvent>
#include <QLabel>
#include <algorithm>

#include "app/look/keep_keys.h"
#include "app/session/run_session.h"
#include "widgets/panel/panel.h"

namespace moescope {

EmptyPanelButton::EmptyPanelButton(Panel* panel, RunSession* session, Selection* selection)
    : QObject(panel),
      panel_(panel),
      session_(session),
      selection_(selection),
      button_(new QPushButton("Start page", panel)) {
  button_->setObjectName("empty_panel_button");
  button_->setToolTip("Ways to train or to open a run");
  keepKeys(button_);
  button_->hide();
  connect(button_, &QPushButton::clicked, this, &EmptyPanelButton::pressed);
  panel_->installEventFilter(this);
  // Plots find out what they have to say while they paint.
  for (PlotFrame* plot : panel_->findChildren<PlotFrame*>()) plot->installEventFilter(this);
  connect(selection_, &Selection::dataChanged, this, &EmptyPanelButton::look);
  connect(session_, &RunSession::openingStarted, this, &EmptyPanelButton::look);
  connect(session_, &RunSession::failed, this, &EmptyPanelButton::look, Qt::QueuedConnection);
}

bool EmptyPanelButton::eventFilter(QObject* watched, QEvent* event) {
  const bool of_panel = watched == panel_;
  const bool news = of_panel ? event->type() == QEvent::Resize || event->type() == QEvent::Show
                             : event->type() == QEvent::Paint && !selection_->history() && button_->isHidden();
  if (news) QMetaObject::invokeMethod(this, &EmptyPanelButton::look, Qt::QueuedConnection);
  return false;
}

const QWidget* EmptyPanelButton::notice() const {
  const QString notice = noRunNotice();
  for (const PlotFrame* plot : panel_->findChildren<PlotFrame*>())
    if (plot->isVisible() && plot->notice() == notice) return plot;
  for (const QLabel* label : panel_->findChildren<QLabel*>())
    if (label->isVisible() && label->text().contains(notice)) return label;
  return nullptr;
}

// Under the notice, which stands in the middle of its plot; nowhere if there is no room for it.
void EmptyPanelButton::look() {
  const QWidget* says = selection_->history() || session_->opening() ? nullptr : notice();
  const QSize size = button_->sizeHint();
  if (!says || size.width() > panel_->width()) return button_->hide();
  const QRect room(says->mapTo(panel_, QPoint(0, 0)), says->size());
  const int under = room.center().y() + panel_->fontMetrics().height();
  button_->setGeometry({{room.left() + std::max(0, (room.width() - size.width()) / 2),
                         std::max(0, std::min(under, panel_->height() - size.height()))},
                        size});
  button_->show();
  button_->raise();
}

}  // namespace moescope
