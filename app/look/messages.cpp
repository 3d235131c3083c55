#include "app/look/messages.h"

#include <QMainWindow>
#include <QMessageBox>
#include <QStatusBar>
#include <exception>

namespace moescope {
namespace {

constexpr int kBetweenReadoutsMs = 80;

}  // namespace

Messages::Messages(QMainWindow* window) : QObject(window), line_(window->statusBar()) {
  last_readout_.setSingleShot(true);
  last_readout_.setInterval(kBetweenReadoutsMs);
  connect(&last_readout_, &QTimer::timeout, this, [this] {
    since_readout_.invalidate();
    showReadout(next_readout_);
  });
}

QWidget* Messages::window() const {
  return line_->window();
}

void Messages::say(const QString& text, int for_ms) {
  line_->showMessage(text, for_ms);
}

void Messages::saySaved(const QString& path) {
  say("saved " + path);
}

void Messages::warn(const QString& text) {
  auto* box = new QMessageBox(QMessageBox::Warning, "MoEScope", text, QMessageBox::Ok, window());
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("warning");
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->open();
  emit warned(text);
}

void Messages::warnOfErrors(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    warn(QString::fromUtf8(error.what()));
  }
}

// At once where there was none for a while, so that it is painted with what else follows the mouse; the last one in any
// case. Other messages stay when the mouse leaves what it read out.
void Messages::showReadout(const QString& text) {
  if (text.isEmpty()) {
    last_readout_.stop();
    if (line_->currentMessage() != readout_) return;
  } else if (since_readout_.isValid() && since_readout_.elapsed() < kBetweenReadoutsMs) {
    next_readout_ = text;
    return last_readout_.start();
  }
  last_readout_.stop();
  readout_ = text;
  line_->showMessage(text);
  since_readout_.start();
}

}  // namespace moescope
