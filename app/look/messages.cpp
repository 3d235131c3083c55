#include "app/look/messages.h"

#include <QMainWindow>
#include <QMessageBox>
#include <QStatusBar>
#include <exception>
#include <utility>

namespace moescope {
namespace {

constexpr int kBetweenReadoutsMs = 40;

}  // namespace

Messages::Messages(QMainWindow* window) : QObject(window), line_(window->statusBar()) {
  between_readouts_.setSingleShot(true);
  between_readouts_.setInterval(kBetweenReadoutsMs);
  connect(&between_readouts_, &QTimer::timeout, this, [this] {
    if (next_readout_) showReadout(*std::exchange(next_readout_, std::nullopt));
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

// Other messages stay when the mouse leaves what it read out.
void Messages::showReadout(const QString& text) {
  if (text.isEmpty()) {
    next_readout_.reset();
    if (line_->currentMessage() != readout_) return;
  } else if (between_readouts_.isActive()) {
    next_readout_ = text;
    return;
  }
  readout_ = text;
  line_->showMessage(text);
  between_readouts_.start();
}

}  // namespace moescope
