#!/bin/sh
# Prints the home of a Java that Spark can use (17 or 21). Where there is none it installs Debian's, if it may, or says in
# one sentence what to install.
#
# JAVA_HOME, where set, is the user's decision and is never replaced by another Java.
set -eu

say() {
    echo "$*" >&2 # standard output is for the answer
}

stop() {
    say "setup: $*"
    exit 1
}

usable_home() { # usable_home JAVA: its home, if it runs and is of a version that Spark can use
    settings="$("$1" -XshowSettings:properties -version 2>&1)" || return 1
    case "$(echo "$settings" | sed -n 's/^ *java\.specification\.version = //p')" in
        17 | 21) echo "$settings" | sed -n 's/^ *java\.home = //p' ;;
        *) return 1 ;;
    esac
}

find_java() { # the Java of the path first, then others that are installed beside it
    for java in java /usr/lib/jvm/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do
        usable_home "$java" && return
    done
    return 1
}

install_java() {
    apt-get -qq update > /dev/null || return 1
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        [ -n "$(apt-cache search --names-only "^$package\$")" ] || continue
        say "Installing $package (once) ..."
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$package" > /dev/null && return
    done
    return 1
}

if [ -n "${JAVA_HOME:-}" ]; then
    usable_home "$JAVA_HOME/bin/java" ||
        stop "JAVA_HOME is '$JAVA_HOME', which is not a Java 17 or 21: set it to one, or unset it to have one looked for."
elif ! find_java; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        install_java || stop "apt-get could not install a Java: install Java 17 or 21 and set JAVA_HOME to it."
        find_java || stop "no Java 17 or 21 was found after installing it: set JAVA_HOME to one."
    else
        stop "Java 17 or 21 was not found: install one (on Debian 'openjdk-17-jre-headless') or set JAVA_HOME to it."
    fi
fi
