//! The `undertone` program: the command line's entry, and no more.

fn main() {
    // A panic anywhere is our bug, and no half-dead node goes on.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(undertone::reporting::failure::Exit::Internal.code());
    }));
    std::process::exit(undertone::commands::cli::run(std::env::args_os()));
}
