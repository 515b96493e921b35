// Whether and how to talk to a terminal.
#pragma once

namespace forebay::sys {

bool is_terminal(int fd);
// Columns of the terminal on `fd`, or 80.
int terminal_columns(int fd);

}  // namespace forebay::sys
